package results

import "fmt"

// Dollars is an amount of US dollars: to a hundredth of a cent where it is less than a
// dollar, else to a cent.
func Dollars(amount float64) string {
	if amount < 0.99995 {
		return fmt.Sprintf("$%.4f", amount)
	}
	return fmt.Sprintf("$%.2f", amount)
}
