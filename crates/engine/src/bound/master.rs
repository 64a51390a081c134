//! A linear program whose columns are made on demand: the least money that covers every class.

/// Below this, a number is rounding.
const TINY: f64 = 1e-9;

/// One way to fill a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    /// Which machine; `None` for pods carried in excess.
    pub(crate) machine: Option<usize>,
    pub(crate) price: f64,
    /// Pods of each row that it carries.
    pub(crate) carries: Vec<(usize, f64)>,
}

/// `min price·y` with `carries·y ≥ needs`, `y ≥ 0`, by the revised primal simplex method.
pub(crate) struct Master {
    /// The columns in use, and how many of each.
    pub(crate) basis: Vec<Column>,
    pub(crate) amounts: Vec<f64>,
    /// What one more pod of each row costs.
    pub(crate) worth: Vec<f64>,
    /// The inverse of the basis, by rows.
    inverse: Vec<Vec<f64>>,
}

impl Master {
    /// Starts with a column for each row that carries pods of that row only, at least a few.
    pub(crate) fn new(needs: &[f64], alone: Vec<Column>) -> Self {
        let rows = needs.len();
        let each = |at: usize| alone[at].carries[0].1;
        let inverse = (0..rows).map(|at| {
            let mut row = vec![0.0; rows];
            row[at] = 1.0 / each(at);
            row
        });
        Self {
            amounts: (0..rows).map(|at| needs[at] / each(at)).collect(),
            worth: (0..rows).map(|at| alone[at].price / each(at)).collect(),
            inverse: inverse.collect(),
            basis: alone,
        }
    }

    /// What the cheapest cover found so far costs.
    pub(crate) fn price(&self) -> f64 {
        self.basis.iter().zip(&self.amounts).map(|(column, amount)| column.price * amount).sum()
    }

    /// What the column saves for each one used.
    pub(crate) fn saves(&self, column: &Column) -> f64 {
        let worth = column.carries.iter().map(|(row, count)| self.worth[*row] * count);
        worth.sum::<f64>() - column.price
    }

    /// Lets the columns of surplus pods in where that saves money.
    pub(crate) fn drop_surplus(&mut self) {
        for row in 0..self.worth.len() {
            if self.worth[row] < -TINY {
                self.enter(Column { machine: None, price: 0.0, carries: vec![(row, -1.0)] });
            }
        }
    }

    /// Takes a column in, if it still saves money.
    pub(crate) fn enter(&mut self, column: Column) -> bool {
        let saves = self.saves(&column);
        if saves <= TINY * (1.0 + column.price) {
            return false;
        }
        let weight = |row: &Vec<f64>| column.carries.iter().map(|(at, n)| row[*at] * n).sum();
        let weights: Vec<f64> = self.inverse.iter().map(weight).collect();
        let mut leaves: Option<(usize, f64)> = None;
        for (at, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > TINY) {
            let ratio = self.amounts[at].max(0.0) / weight;
            let better = leaves.is_none_or(|(best, least)| {
                ratio < least - TINY || ratio <= least + TINY && *weight > weights[best]
            });
            if better {
                leaves = Some((at, ratio));
            }
        }
        let Some((leaves, amount)) = leaves else { return false };
        let mut pivot = std::mem::take(&mut self.inverse[leaves]);
        pivot.iter_mut().for_each(|entry| *entry /= weights[leaves]);
        for (at, weight) in weights.iter().enumerate() {
            if at != leaves && *weight != 0.0 {
                self.amounts[at] -= amount * weight;
                let row = self.inverse[at].iter_mut().zip(&pivot);
                row.for_each(|(entry, pivot)| *entry -= weight * pivot);
            }
        }
        for (worth, pivot) in self.worth.iter_mut().zip(&pivot) {
            *worth -= saves * pivot;
        }
        self.amounts[leaves] = amount;
        self.inverse[leaves] = pivot;
        self.basis[leaves] = column;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_cover_of_two_classes() {
        let column = |price, carries: &[(usize, f64)]| Column {
            machine: Some(0),
            price,
            carries: carries.to_vec(),
        };
        let alone = vec![column(1.0, &[(0, 2.0)]), column(1.0, &[(1, 1.0)])];
        let mut master = Master::new(&[10.0, 10.0], alone);
        assert_eq!(master.price(), 15.0);
        assert!(master.enter(column(1.0, &[(0, 1.0), (1, 1.0)])));
        assert!((master.price() - 10.0).abs() < 1e-9);
        master.drop_surplus();
        assert!((master.worth.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{:?}", master.worth);
        assert!(!master.enter(column(2.0, &[(0, 1.0), (1, 1.0)])));
    }
}
